//go:build !darwin

package command

import (
	"os"
	"strings"
)

// cpuModel names the processor.
func cpuModel() string {
	if id := os.Getenv("PROCESSOR_IDENTIFIER"); id != "" {
		return id // Windows
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return unknownCPU
	}
	return cpuFromInfo(string(info))
}

// cpuFromInfo names the processor that Linux describes. On arm64 there are numbers in place of a
// name.
func cpuFromInfo(info string) string {
	values := map[string]string{}
	for line := range strings.Lines(info) {
		key, value, ok := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); ok && values[key] == "" {
			values[key] = strings.TrimSpace(value)
		}
	}
	switch {
	case values["model name"] != "":
		return values["model name"]
	case values["CPU part"] != "":
		return "implementer " + values["CPU implementer"] + ", part " + values["CPU part"] + ", variant " + values["CPU variant"]
	default:
		return unknownCPU
	}
}
