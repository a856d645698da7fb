"""The attacks in the suite, by class: which test files hold them, and how many cases each class has.

`python -m tests.attack_classes` prints the table of `docs/security.md`; a test compares the two. A case is one call
of a test function with its parameters; fuzzers count as one, whatever they generate.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from tests.shared import ROOT

CLASSES: dict[str, tuple[str, ...]] = {
    "Commands that run more than they show": (
        "tests/policy/test_shell.py",
        "tests/policy/test_shell_bash.py",
        "tests/policy/test_shell_evaluated.py",
    ),
    "Paths and links that lead elsewhere": ("tests/policy/test_paths.py", "tests/policy/test_globs.py"),
    "Addresses that lead inside": ("tests/policy/test_urls.py", "tests/toolkits/test_http.py"),
    "SQL that reads or writes more": ("tests/toolkits/test_sql.py",),
    "Code in a sandbox": ("tests/sandbox/test_attacks.py", "tests/sandbox/test_cases.py"),
    "Commands that leave their sandbox": ("tests/toolkits/test_shell.py", "tests/cli/test_root.py"),
    "Approvals that nobody gave": (
        "tests/policy/test_no_run_without_approval.py",
        "tests/policy/test_approved_resolution.py",
        "tests/schema/test_visible_json.py",
        "tests/serve/api/test_identity.py",
        "tests/serve/frontends/test_abuse.py",
    ),
    "Tenants and keys": (
        "tests/serve/api/test_owners.py",
        "tests/serve/api/test_narrow_keys.py",
        "tests/serve/api/test_auth.py",
    ),
    "Owners that take all there is": (
        "tests/session/test_fairness.py",
        "tests/session/test_grant_numbers.py",
        "tests/_call/test_owner_turns.py",
        "tests/sandbox/test_job_queue.py",
        "tests/serve/api/test_fairness.py",
    ),
    "Pages, origins and tokens": (
        "tests/serve/test_start_token.py",
        "tests/serve/test_origins.py",
        "tests/serve/test_guards.py",
        "tests/console/test_hostile.py",
    ),
    "Bytes that are no request": (
        "tests/serve/test_bad_input.py",
        "tests/serve/test_hostile.py",
        "tests/serve/api/test_fuzz.py",
        "tests/test_bad_input.py",
    ),
    "Servers, documents and folders of strangers": (
        "tests/sources/mcp/test_fingerprints.py",
        "tests/policy/test_fingerprints.py",
        "tests/sources/openapi/test_junk.py",
        "tests/cli/test_trust.py",
    ),
    "Schemas, listings and documents that take long": (
        "tests/schema/test_limits.py",
        "tests/sources/mcp/test_bounds.py",
        "tests/sources/openapi/test_bounds.py",
    ),
    "Secrets that show": (
        "tests/contract/test_failure.py",
        "tests/contract/test_secret_names.py",
        "tests/contract/test_vault.py",
        "tests/definitions/test_secrets.py",
        "tests/store/test_private_files.py",
    ),
    "Audits that were changed": ("tests/cli/test_audit.py",),
}


def collected() -> Counter[str]:
    """How many cases each file holds, as pytest collects them."""
    files = [file for of in CLASSES.values() for file in of]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", "-n", "0", *files]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True).stdout
    rows = (line.rpartition(": ") for line in said.splitlines())
    return Counter({file: int(count) for file, _, count in rows if count.isdecimal()})


def table() -> list[str]:
    """The table, a line for each class."""
    counts = collected()
    lines = ["| class | cases | where |", "|---|---:|---|"]
    for name, files in CLASSES.items():
        where = ", ".join(f"`{file.removeprefix('tests/')}`" for file in files)
        lines.append(f"| {name} | {sum(counts[file] for file in files)} | {where} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
