"""May this call run, must a person be asked, or is it refused, and why."""

from toolcrib.policy.auto import AutoPolicy
from toolcrib.policy.default import DefaultPolicy, rules_of
from toolcrib.policy.problems import BadRule, Unfit
from toolcrib.policy.verdicts import ALLOW, Arguments, Policy, Subject, Verdict

__all__ = [
    "ALLOW",
    "Arguments",
    "AutoPolicy",
    "BadRule",
    "DefaultPolicy",
    "Policy",
    "Subject",
    "Unfit",
    "Verdict",
    "rules_of",
]
