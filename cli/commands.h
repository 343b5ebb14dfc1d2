/* commands.h - the list of commands, in the order of the help: one line each. */
#ifndef LIPSC_CLI_COMMANDS_H
#define LIPSC_CLI_COMMANDS_H

#include "args.h"

#define CLI_COMMAND_LIST(X) \
    X(demo)                 \
    X(measure)              \
    X(layer)                \
    X(bounds)               \
    X(attack)               \
    X(perturb)              \
    X(split)                \
    X(push)                 \
    X(distance)             \
    X(reproduce)            \
    X(report)               \
    X(compare)              \
    X(merge)                \
    X(info)                 \
    X(tokens)               \
    X(export)               \
    X(check)                \
    X(selftest)             \
    X(devices)              \
    X(bench)

#define CLI_DECLARE(name) extern const cli_command cli_cmd_##name;
CLI_COMMAND_LIST(CLI_DECLARE)
#undef CLI_DECLARE

#endif
