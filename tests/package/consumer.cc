#include <cstdio>

#include "strategy/settings.h"

int main() { std::puts(starling::write_settings({}).c_str()); }
