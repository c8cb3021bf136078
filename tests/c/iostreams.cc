/* C++ streams on the standard descriptors, which are a connection: in step with C's, and not. */
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

int main(int argc, char **argv)
{
    bool apart = argc > 1 && std::strcmp(argv[1], "apart") == 0;
    std::ios::sync_with_stdio(!apart);
    std::string line;
    for (int n = 0; std::getline(std::cin, line); n++) {
        std::cout << n << ' ' << line << std::endl;
        if (!apart && n % 3 == 0 && std::scanf("%*[^\n]") == 0) {
            std::getchar();
            std::puts("passed over");
            std::fflush(stdout);
        }
        std::clog << std::flush;
    }
    std::cerr << "error " << std::cin.eof() << '\n';
    std::cout << "flushed at the end\n";
    return 7;
}
