// For programs of one's own: a training loop made distributed. docs/training.md shows one.
#pragma once

#include "train/dist.h"
