"""What is told by OpenTelemetry."""
