// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.0;

/// What a smart account does: several calls in one transaction, and signatures of its own. For tests alone.
contract Account {
    struct Call {
        address to;
        uint256 value;
        bytes data;
    }

    function execute(bytes32, bytes calldata batch) external payable {
        Call[] memory calls = abi.decode(batch, (Call[]));
        for (uint256 i = 0; i < calls.length; i++) {
            (bool ok, bytes memory said) = calls[i].to.call{value: calls[i].value}(calls[i].data);
            if (!ok) {
                assembly {
                    revert(add(said, 32), mload(said))
                }
            }
        }
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external pure returns (bytes4) {
        return keccak256(abi.encode(digest)) == bytes32(signature) ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }

    receive() external payable {}
}
