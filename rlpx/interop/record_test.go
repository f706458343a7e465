package interop

import (
	"crypto/ecdsa"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/p2p/enode"

	"github.com/go-rlpx/transport/internal/rlpxtest"
	"github.com/go-rlpx/transport/rlpx"
	"github.com/go-rlpx/transport/rlpx/p2p"
)

// update makes the tests write what they see: transcripts, and the generated part of README.md.
var update = flag.Bool("update", false, "write transcripts and the matrix of README.md")

// transcripts is where they are. Package rlpx replays them.
const transcripts = "../testdata/transcripts"

// recording is a session that is recorded from below. Use it in place of dial and listen, make
// the session, do something short and worth having in a transcript, and end the session from
// one side or the other:
//
//	rec := record(t, row{peer, weDial, 5}, "peer-we-dial", "An echo of each size, a Ping, and our Disconnect.")
//	session := newSession(t, rec.dial(t, addr, remoteKey), cfg)      // or
//	session := newSession(t, rec.listen(t).accept(t), cfg)           // the listener has the enode URL as url
//
// When the test ends, after all that was registered with t.Cleanup since record, the recording is
// opened with an independent decoder; with -update it is then written to transcripts, and without
// it only the file's existence is checked. One recording is one session. rlpxtest.RecordLimit bytes
// of it are kept, both directions together, and what is beyond is cut off at a frame: do not send
// much more than that, or its end and the Disconnect are missed.
type recording struct {
	row         row
	name, story string
	key         *ecdsa.PrivateKey
	*rlpxtest.Recorder
}

// record starts the recording of a session that belongs to the given row of the matrix.
// name is that of the file, without ".txt"; story says in one line what happens.
func record(t *testing.T, row row, name, story string) *recording {
	t.Helper()
	rec := &recording{row: row, name: name, story: story, key: newKey(t)}
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		if rec.Recorder == nil {
			t.Errorf("recording %s: nothing was dialed or listened for", name)
			return
		}
		rec.finish(t)
	})
	return rec
}

func (rec *recording) path() string { return filepath.Join(transcripts, rec.name+".txt") }

// config is what our end runs with.
func (rec *recording) config() *rlpx.Config {
	return &rlpx.Config{Key: rec.key, Rand: rec.Rand(), HandshakeTimeout: patience}
}

// dial makes the recorded connection.
func (rec *recording) dial(t *testing.T, addr string, remote *ecdsa.PublicKey) *rlpx.Conn {
	t.Helper()
	rec.Recorder = rlpxtest.NewRecorder(rec.key, remote)
	dialer := rlpx.Dialer{Config: rec.config(), DialContext: rec.DialContext}
	conn, err := dialer.Dial(step(t), "tcp", addr, remote)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// listen waits for the recorded connection. Connections after the first are closed at once.
func (rec *recording) listen(t *testing.T) *listener {
	t.Helper()
	rec.Recorder = rlpxtest.NewRecorder(rec.key, nil)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := rlpx.NewListener(rec.Listener(inner), rec.config())
	t.Cleanup(func() { l.Close() })
	addr := addrPort(l.Addr())
	node := enode.NewV4(&rec.key.PublicKey, addr.Addr().AsSlice(), int(addr.Port()), int(addr.Port()))
	return &listener{l, node.URLv4()}
}

// finish opens the recording, and writes it if that is asked for.
func (rec *recording) finish(t *testing.T) {
	transcript, err := rec.Transcript()
	if err != nil {
		t.Errorf("recording %s: %v", rec.name, err)
		return
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	transcript.Peer = rec.row.peer
	transcript.Date = time.Now().UTC().Format(time.DateOnly)
	transcript.Command = fmt.Sprintf("cd rlpx/interop && go test -trimpath -run '^%s$' . -update", test)
	transcript.Story = rec.story
	text := transcript.Format()
	if _, err := rlpxtest.ParseTranscript(text); err != nil {
		t.Errorf("recording %s: %v", rec.name, err)
		return
	}
	if *update {
		if err := os.WriteFile(rec.path(), text, 0o644); err != nil {
			t.Error(err)
			return
		}
		announce("%s: wrote %s, %d messages", t.Name(), rec.path(), len(transcript.Messages))
	} else if _, err := os.Stat(rec.path()); err != nil {
		t.Errorf("there is no transcript of this session; record it with -update: %v", err)
		return
	}
	seen(t, rec.row, transcriptColumn, fmt.Sprintf("[%s](%s/%s.txt)", rec.name, transcripts, rec.name))
}

// recordedEchoes are the messages of a recorded session: short, as all of it becomes a file.
func recordedEchoes(session *p2p.Session) [][]byte {
	long := 2 << 10
	if session.ConnectionState().Snappy {
		long = 16 << 10
	}
	return [][]byte{{}, {0}, compressible(1 << 10), incompressible(1 << 10), compressible(long)}
}
