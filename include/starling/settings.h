// For programs of one's own: what can be set, and the named systems.
#pragma once

#include "strategy/settings.h"
#include "strategy/systems.h"
