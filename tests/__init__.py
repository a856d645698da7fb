"""The tests of Toolcrib; the folder mirrors the package."""
