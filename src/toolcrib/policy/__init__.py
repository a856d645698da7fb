"""May this call run, must a person be asked, or is it refused, and why."""

from toolcrib.policy.auto_policy import AutoPolicy
from toolcrib.policy.call_permissions import CallPermissions
from toolcrib.policy.data_origin import ANYWHERE, DataOrigin
from toolcrib.policy.default_policy import DefaultPolicy, rules_of
from toolcrib.policy.errors import BadRule, UnfitArgument
from toolcrib.policy.verdicts import ALLOW, Arguments, Policy, Subject, Verdict

__all__ = [
    "ALLOW",
    "ANYWHERE",
    "Arguments",
    "AutoPolicy",
    "BadRule",
    "CallPermissions",
    "DataOrigin",
    "DefaultPolicy",
    "Policy",
    "Subject",
    "UnfitArgument",
    "Verdict",
    "rules_of",
]
