"""Read what happened elsewhere: request logs so far; traces, other tools' results and telemetry to come."""
