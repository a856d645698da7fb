# pragma version ~=0.4.3
# @notice A token of six decimals that everybody may mint, for tests alone.

event Transfer:
    sender: indexed(address)
    receiver: indexed(address)
    amount: uint256

event Approval:
    owner: indexed(address)
    spender: indexed(address)
    amount: uint256

name: public(constant(String[11])) = "Test Dollar"
symbol: public(constant(String[4])) = "TUSD"
decimals: public(constant(uint8)) = 6
totalSupply: public(uint256)
balanceOf: public(HashMap[address, uint256])
allowance: public(HashMap[address, HashMap[address, uint256]])


@external
def mint(to: address, amount: uint256):
    self.totalSupply += amount
    self.balanceOf[to] += amount
    log Transfer(sender=empty(address), receiver=to, amount=amount)


@external
def approve(spender: address, amount: uint256) -> bool:
    self.allowance[msg.sender][spender] = amount
    log Approval(owner=msg.sender, spender=spender, amount=amount)
    return True


@external
def transfer(to: address, amount: uint256) -> bool:
    self._move(msg.sender, to, amount)
    return True


@external
def transferFrom(sender: address, to: address, amount: uint256) -> bool:
    assert self.allowance[sender][msg.sender] >= amount, "allowance too low"
    self.allowance[sender][msg.sender] -= amount
    self._move(sender, to, amount)
    return True


@internal
def _move(sender: address, to: address, amount: uint256):
    assert self.balanceOf[sender] >= amount, "not enough"
    self.balanceOf[sender] -= amount
    self.balanceOf[to] += amount
    log Transfer(sender=sender, receiver=to, amount=amount)
