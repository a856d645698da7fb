"""Usage: echo. Says each line again."""

import sys

if __name__ == "__main__":
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
