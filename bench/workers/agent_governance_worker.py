"""Microsoft's Agent Governance Toolkit on commands: a JSON list comes in, and for each part the commands that it stops.

Everything is asked with the rules that the package itself brings.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path

from agent_os.cli.policy_checker import PolicyChecker
from agent_os.integrations.templates import PolicyTemplates
from agent_os.semantic_policy import PolicyDenied, SemanticPolicyEngine

warnings.simplefilter("ignore")
engine, strict, checker = SemanticPolicyEngine(), PolicyTemplates.strict(), PolicyChecker()


def semantic(command: str) -> bool:
    try:
        engine.check("bash", {"command": command})
    except PolicyDenied:
        return True
    return False


def blocked(command: str) -> bool:
    return bool(strict.matches_pattern(command))


def checked(command: str, script: Path) -> bool:
    script.write_text(command)
    return bool(checker.check_file(str(script)))


commands = json.load(sys.stdin)
with tempfile.TemporaryDirectory() as folder:
    script = Path(folder) / "command.sh"
    print(
        json.dumps(
            {
                "semantic policy": [semantic(one) for one in commands],
                "strict template": [blocked(one) for one in commands],
                "policy checker": [checked(one, script) for one in commands],
            }
        )
    )
