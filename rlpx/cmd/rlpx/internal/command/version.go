package command

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// build says what this binary was made from.
type build struct {
	version  string // of the module: a tag, a pseudo-version, or "devel"
	revision string // of the repository, if that is where it was built
}

func version() build {
	b := build{version: "devel"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.version = v
	}
	modified := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.revision = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			if s.Value == "true" {
				modified = "+"
			}
		}
	}
	if b.revision != "" {
		b.revision += modified
	}
	return b
}

func (b build) String() string {
	text := b.version
	if b.revision != "" {
		text += " (" + b.revision + ")"
	}
	return fmt.Sprintf("%s, %s %s/%s", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// clientName is what we call ourselves in Hello, in the form that other clients use.
func clientName() string {
	return fmt.Sprintf("go-rlpx/%s/%s-%s/%s", version().version, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
