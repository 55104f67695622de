#include <starling/settings.h>

#include <cstdio>

#include <starling/dist.h>

int main() { std::puts(starling::write_settings({}).c_str()); }
