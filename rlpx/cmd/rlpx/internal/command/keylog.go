package command

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/go-rlpx/transport/rlpx"
)

func keyLogFlag() cli.Flag {
	return &cli.StringFlag{
		Name:  "keylog",
		Usage: "append the secrets of every session to `FILE`, to decrypt captures; whoever has it can read the traffic",
	}
}

// openKeyLog makes cfg log to the file that the -keylog flag names, if it names one, and returns what closes it.
func openKeyLog(cmd *cli.Command, cfg *rlpx.Config) (func(), error) {
	file := cmd.String("keylog")
	if file == "" {
		return func() {}, nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, keyFileMode)
	if err != nil {
		return nil, fmt.Errorf("key log: %w", err)
	}
	cfg.KeyLogWriter = f
	return func() { f.Close() }, nil
}
