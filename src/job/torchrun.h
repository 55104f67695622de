// What torchrun tells its processes, and what people set by hand or by Ray for torch.distributed:
// MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE.
#pragma once

#include <optional>

#include "job/engine_place.h"

namespace starling {

std::optional<EnginePlace> torchrun_place(const Variables& variables);

}  // namespace starling
