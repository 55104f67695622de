#include <starling/settings.h>

#include <cstdio>

int main() { std::puts(starling::Settings{}.strategy.c_str()); }
