#include <cstdio>

#include "strategy/settings.h"

int main() { std::puts(starling::Settings{}.strategy.c_str()); }
