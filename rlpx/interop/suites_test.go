package interop

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// suiteAttempts is how often a test of a suite may be tried. They wait two seconds for each answer,
// which is short on a machine that is busy with other things.
const suiteAttempts = 3

// ethTestNetwork is the id of the network whose chain comes with the suites.
const ethTestNetwork = 3503995874084926

// TestDevp2pSuites runs the suites of go-ethereum's devp2p tool, as it is, against geth on our
// transport: whatever geth passes as it is, it passes on ours.
func TestDevp2pSuites(t *testing.T) {
	devp2pProgram.build(t)
	gethProgram.build(t)
	changed(t)
	dropInGethProgram.build(t)
	for _, suite := range []string{"eth-test", "snap-test"} {
		t.Run(suite, func(t *testing.T) {
			ours := runDevp2pSuite(t, suite, &dropInGethProgram)
			theirs := runDevp2pSuite(t, suite, &gethProgram)
			passed := 0
			for _, name := range slices.Sorted(maps.Keys(theirs)) {
				if theirs[name] && !ours[name] {
					t.Errorf("%s fails, and not on go-ethereum's transport", name)
				}
				if ours[name] {
					passed++
				} else {
					t.Logf("%s: passes on our transport: %v, on go-ethereum's: %v", name, ours[name], theirs[name])
				}
			}
			announce("%s: %d of %d pass on our transport", suite, passed, len(ours))
			if len(ours) != len(theirs) || passed < 5 {
				t.Errorf("%d tests on our transport, %d on go-ethereum's", len(ours), len(theirs))
			}
		})
	}
}

var suiteResult = regexp.MustCompile(`(?m)^-- (OK|FAIL) (\S+) \(`)

// runDevp2pSuite runs a suite against a geth node and returns which of its tests passed. Those that
// failed get another node and another try.
func runDevp2pSuite(t *testing.T, suite string, geth *program) map[string]bool {
	t.Helper()
	source, err := goCommand(t.Context(), "list", "-m", "-f", "{{.Dir}}", gethModule)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(source, "cmd", "devp2p", "internal", "ethtest", "testdata")
	passed := make(map[string]bool)
	try := func(args ...string) {
		t.Helper()
		n := startGeth(t, gethConfig{program: geth, foreign: &foreignChain{
			genesis: filepath.Join(data, "genesis.json"), blocks: filepath.Join(data, "chain.rlp"), networkID: ethTestNetwork,
		}})
		defer n.stop()
		args = slices.Concat([]string{"rlpx", suite, "--chain", data, "--node", n.url, "--engineapi", n.engineURL(),
			"--jwtsecret", fmt.Sprintf("%x", n.home.jwt)}, args)
		out, err := run(t, devp2pProgram.build(t), args...)
		results := suiteResult.FindAllStringSubmatch(out, -1)
		if len(results) == 0 {
			t.Fatalf("devp2p %s: %v\n%s", suite, err, out)
		}
		for _, result := range results {
			passed[result[2]] = passed[result[2]] || result[1] == "OK"
		}
	}
	try()
	for range suiteAttempts - 1 {
		for _, name := range slices.Sorted(maps.Keys(passed)) {
			if !passed[name] {
				try("--run", "^"+name+"$")
			}
		}
	}
	return passed
}
