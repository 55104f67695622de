// For programs of one's own: layers that workers share. docs/model_parallel.md shows some.
#pragma once

#include "job/session.h"
#include "parallel/split_layers.h"
#include "parallel/strips.h"
#include "parallel/whole.h"
