"""What the toolkits `ethereum`, `account`, `cast`, `wallet` and `forge` share: nodes, values, ABI, explorers, limits.

It is no web3: there is no key here, nothing is signed, and no tool takes the address of a node.
"""

from toolcrib.chain.chains import Chain, Chains
from toolcrib.chain.limits import BadChain, ChainLimits

__all__ = ["BadChain", "Chain", "ChainLimits", "Chains"]
