"""How commands of definition files run: real programs, real services, real workflows."""
