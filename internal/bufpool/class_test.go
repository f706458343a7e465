package bufpool

import "testing"

func TestClasses(t *testing.T) {
	for _, tc := range []struct{ ask, get int }{
		{0, 1 << 10}, {1, 1 << 10}, {1 << 10, 1 << 10}, {1<<10 + 1, 1 << 11},
		{4096, 4096}, {4097, 8192}, {16 << 10, 16 << 10}, {16<<10 + 1, 20 << 10}, {20<<10 + 1, 24 << 10},
		{24<<10 + 1, 28 << 10}, {28<<10 + 1, 32 << 10}, {32<<10 + 1, 40 << 10}, {128<<10 + 49, 160 << 10},
		{1 << 20, 1 << 20}, {2 << 20, 2 << 20}, {2<<20 + 49, 2<<20 + 512<<10},
		{2446710, 2<<20 + 512<<10}, // the longest block of 2 MiB
		{1<<23 - 1, 1 << 23}, {1 << 23, 1 << 23}, {1<<23 + 1, 10 << 20}, {14<<20 + 1, 16 << 20},
		{1<<24 + 48, MaxSize}, {MaxSize, MaxSize}, {MaxSize + 1, MaxSize + 1},
	} {
		b := Get(tc.ask)
		if len(b.B) != tc.get {
			t.Errorf("Get(%d) lends %d bytes, want %d", tc.ask, len(b.B), tc.get)
		}
		if got := ClassSize(tc.ask); got != tc.get {
			t.Errorf("ClassSize(%d) = %d, want %d", tc.ask, got, tc.get)
		}
		if !b.Held() {
			t.Errorf("Get(%d): handle says that it holds nothing", tc.ask)
		}
		b.Release(0)
		if b.Held() || b.B != nil {
			t.Errorf("Get(%d): handle not emptied by Release", tc.ask)
		}
	}
}

// Each class is the smallest that holds what it is for. From 16 KiB on it is at most a quarter
// larger than the one below.
func TestClassTable(t *testing.T) {
	below := 0
	for class, size := range classSizes {
		if size <= below {
			t.Fatalf("class %d has %d bytes, the one before %d", class, size, below)
		}
		for _, n := range []int{below + 1, size} {
			if got := classOf(n); got != class {
				t.Errorf("%d bytes are in class %d, want %d", n, got, class)
			}
		}
		if below >= 1<<fineShift && 4*size > 5*below {
			t.Errorf("%d bytes follow %d", size, below)
		}
		below = size
	}
	if below != MaxSize {
		t.Errorf("the largest class has %d bytes, want %d", below, MaxSize)
	}
}

func TestSmaller(t *testing.T) {
	for _, tc := range []struct{ size, want int }{
		{MaxSize + 1, MaxSize}, {MaxSize, 1 << 24}, {1 << 23, 7 << 20}, {20 << 10, 16 << 10}, {16 << 10, 8 << 10},
		{1 << 11, 1 << 10}, {1 << 10, 1 << 10},
	} {
		if got := Smaller(tc.size); got != tc.want {
			t.Errorf("Smaller(%d) = %d, want %d", tc.size, got, tc.want)
		}
	}
}
