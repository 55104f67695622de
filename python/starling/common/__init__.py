"""What the stand-ins for Horovod's modules share, under the names that its programs import."""
