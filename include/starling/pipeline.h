// For programs of one's own: a network on several workers. docs/model_parallel.md shows one.
#pragma once

#include "parallel/pipeline.h"
