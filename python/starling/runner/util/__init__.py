"""What programs import of horovod.runner.util."""
