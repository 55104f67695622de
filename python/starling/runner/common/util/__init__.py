"""What programs import of horovod.runner.common.util."""
