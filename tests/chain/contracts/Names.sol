// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.0;

/// A registry of names that is its own resolver, for tests alone.
contract Names {
    mapping(bytes32 => address) public addr;

    function set(bytes32 node, address to) external {
        addr[node] = to;
    }

    function resolver(bytes32 node) external view returns (address) {
        return addr[node] == address(0) ? address(0) : address(this);
    }
}
