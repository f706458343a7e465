package command

import "golang.org/x/sys/unix"

// cpuModel names the processor.
func cpuModel() string {
	name, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return unknownCPU
	}
	return name
}
