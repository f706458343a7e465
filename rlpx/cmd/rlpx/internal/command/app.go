package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"
)

// Exit statuses.
const (
	statusOK          = 0
	statusFailed      = 1
	statusUsage       = 2
	statusInterrupted = 130 // as shells count a command that Ctrl-C ended
)

// errInterrupted is the end of a command that was interrupted before it was done.
var errInterrupted = errors.New("interrupted")

// Run runs the command with the given arguments, program name not included, and
// returns the exit status: 0 for success, 1 for a failure, 2 for wrong usage, 130 if ctx
// was done first. Commands that wait or repeat end when ctx is done, with a summary;
// those that end in no other way have succeeded then.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	e := &env{out: &output{w: stdout}, err: stderr}
	err := e.root().Run(ctx, append([]string{"rlpx"}, args...))
	if err == nil {
		err = e.out.failure()
	}
	status := exitStatus(ctx, err)
	if err != nil {
		fmt.Fprintln(stderr, "rlpx: "+message(err))
	}
	if err := e.keyLog.close(); err != nil {
		fmt.Fprintln(stderr, "rlpx: "+message(err))
		status = statusFailed
	}
	return status
}

func exitStatus(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return statusOK
	case errors.Is(err, errInterrupted), ctx.Err() != nil && errors.Is(err, context.Canceled):
		return statusInterrupted
	}
	// The library's own exit codes stand for -help on what does not exist.
	if _, ok := errors.AsType[cli.ExitCoder](err); ok || isUsage(err) {
		return statusUsage
	}
	return statusFailed
}

// env is what all commands have: where results go, and where the rest goes.
type env struct {
	out    *output
	err    io.Writer
	keyLog *keyLog // nil: none
}

// warn says something that matters and is no failure.
func (e *env) warn(format string, args ...any) {
	fmt.Fprintln(e.err, "rlpx: warning: "+printable(fmt.Sprintf(format, args...), maxMessage))
}

func (e *env) root() *cli.Command {
	root := &cli.Command{
		Name:  "rlpx",
		Usage: "see and test Ethereum's encrypted p2p transport",
		Description: "Flags take one dash or two. Exit status: 0 success, 1 failure, 2 wrong flags or arguments,\n" +
			"130 interrupted by Ctrl-C. It is 0 after Ctrl-C for serve and for ping -c 0, which go on until then.\n\n" +
			"Try 'rlpx demo', which needs nothing, or 'rlpx serve' and a ping of the enode URL that it prints.",
		Version: version().String(),
		Commands: []*cli.Command{
			e.demoCommand(),
			e.pingCommand(),
			e.serveCommand(),
			e.benchCommand(),
			e.decodeCommand(),
			e.keyCommand(),
			{
				Name:  "version",
				Usage: "print the version and how it was built",
				Action: func(_ context.Context, cmd *cli.Command) error {
					if err := noArguments(cmd); err != nil {
						return err
					}
					cli.ShowVersion(cmd.Root())
					return nil
				},
			},
			{
				// The library's own reports a wrong flag twice.
				Name:      "help",
				Aliases:   []string{"h"},
				Usage:     "show the commands, or help for one of them",
				ArgsUsage: "[COMMAND]",
				Action: func(ctx context.Context, cmd *cli.Command) error {
					if !cmd.Args().Present() {
						return cli.ShowRootCommandHelp(cmd.Root())
					}
					name, err := argument(cmd, "COMMAND")
					if err != nil {
						return err
					}
					if cmd.Root().Command(name) == nil {
						return unknownCommand(cmd.Root(), name)
					}
					return cli.ShowCommandHelp(ctx, cmd.Root(), name)
				},
			},
		},
		Writer:    e.out,
		ErrWriter: e.err,
		// Run reports errors; the library would end the process.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		OnUsageError:   onUsageError,
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return unknownCommand(cmd, name)
			}
			return cli.ShowRootCommandHelp(cmd)
		},
	}
	for _, cmd := range root.Commands {
		cmd.HideHelpCommand = true
		cmd.OnUsageError = onUsageError
	}
	return root
}

// usageError is a mistake in the arguments.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func isUsage(err error) bool {
	_, ok := errors.AsType[*usageError](err)
	return ok
}

func usagef(cmd *cli.Command, format string, args ...any) error {
	return &usageError{fmt.Errorf(format+" (see %s -help)", append(args, cmd.FullName())...)}
}

// unknownCommand names the command that was meant, if one is alike.
func unknownCommand(root *cli.Command, name string) error {
	if alike := cli.SuggestCommand(root.Commands, name); alike != "" {
		return usagef(root, "no command %q, did you mean %q?", name, alike)
	}
	return usagef(root, "no command %q", name)
}

func onUsageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: "); ok {
		if alike := cli.SuggestFlag(cmd.Flags, strings.TrimLeft(name, "-"), false); alike != "" {
			return usagef(cmd, "no flag %s, did you mean %s?", name, alike)
		}
		return usagef(cmd, "no flag %s", name)
	}
	return usagef(cmd, "%w", err)
}

// argument returns the only argument of cmd.
func argument(cmd *cli.Command, what string) (string, error) {
	switch args := cmd.Args(); args.Len() {
	case 0:
		return "", usagef(cmd, "%s is missing", what)
	case 1:
		return args.First(), nil
	default:
		return "", usagef(cmd, "one argument expected, %s, but there are %d", what, args.Len())
	}
}

// noArguments is argument for commands that take none.
func noArguments(cmd *cli.Command) error {
	if n := cmd.Args().Len(); n > 0 {
		return usagef(cmd, "unexpected argument %q", cmd.Args().First())
	}
	return nil
}
