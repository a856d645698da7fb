// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.0;

/// Gives back what it is given, and fails in every way there is. For tests alone.
contract Echo {
    struct Item {
        address who;
        int24 tick;
        bytes data;
    }

    struct Order {
        uint256 id;
        Item[] items;
        uint8[2][] pairs;
    }

    error Wrong(uint256 code, string why);

    uint256 public count;

    function order(Order calldata given, string[] calldata names, bytes4 mark)
        external
        pure
        returns (Order memory, string[] memory, bytes4)
    {
        return (given, names, mark);
    }

    function fail(uint256 how) external pure returns (uint256) {
        if (how == 0) revert("plain text");
        if (how == 1) revert Wrong(7, "custom");
        if (how == 2) assert(false);
        uint256 zero = how - 3;
        if (how == 3) return how / zero;
        revert();
    }

    function add(uint256 amount) external payable {
        count += amount;
    }
}
