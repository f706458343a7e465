package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colours that differ for the colour-blind too, and in lightness on paper.
var (
	gethColor = color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}
	rlpxColor = color.RGBA{G: 0x5a, B: 0x9c, A: 0xff}
	gridColor = color.Gray{Y: 0xe4}
	dimColor  = color.Gray{Y: 0x55}
)

const (
	width, height = 880 * vg.Length(1), 400 * vg.Length(1) // points
	margin        = 10
	titleSize     = 13
	textSize      = 11
	captionSize   = 10
	ratioSize     = 9
	legendWidth   = 110
)

var titles = [2]string{"Throughput by message size", "Throughput by number of connections"}

// draw returns the chart as an SVG document.
func draw(r *results) ([]byte, error) {
	where := "TCP, loopback interface"
	if r.network == "pipe" {
		where = "net.Pipe"
	}
	// Small messages are a hundred times slower than large ones, so that only a logarithm shows
	// them all.
	bySize, legends, err := panel("message (one connection)", r.sizes, true)
	if err != nil {
		return nil, err
	}
	byConns, _, err := panel("connections with shared hashing (messages of "+spaced(message)+")", r.conns, false)
	if err != nil {
		return nil, err
	}

	canvas := vgsvg.New(width, height)
	all := vgdraw.New(canvas)
	all.FillPolygon(color.White, []vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}})
	panels := vgdraw.Crop(all, margin, -margin, 5*captionSize+margin, -titleSize-3*ratioSize-margin)
	tiles := vgdraw.Tiles{Rows: 1, Cols: 2, PadX: 24}
	title := bySize.Title.TextStyle
	upright := bySize.Y.Label.TextStyle
	upright.Rotation = math.Pi / 2
	upright.XAlign, upright.YAlign = vgdraw.XCenter, vgdraw.YTop
	ratio := upright
	ratio.Rotation, ratio.Font.Size, ratio.Color = 0, ratioSize, rlpxColor
	ratio.XAlign, ratio.YAlign = vgdraw.XCenter, vgdraw.YBottom
	for i, p := range []*plot.Plot{bySize, byConns} {
		tile := tiles.At(panels, i, 0)
		c := vgdraw.Crop(tile, 2*textSize, 0, 0, 0)
		p.Draw(c)
		// The plots' own titles would be centred above the axis labels too, and the library leaves
		// too much room for the label of a logarithmic axis.
		data := p.DataCanvas(c)
		middle := data.Center()
		all.FillText(title, vg.Point{X: middle.X, Y: height - margin}, titles[i])
		all.FillText(upright, vg.Point{X: tile.Min.X, Y: middle.Y}, "million bytes per second")
		// The ratios stand above the panel, where neither a curve nor the grid goes.
		above := data.Max.Y + ratioSize/2
		for _, pt := range [2][]*point{r.sizes, r.conns}[i] {
			all.FillText(ratio, vg.Point{X: data.X(p.X.Norm(pt.x)), Y: above}, fmt.Sprintf("%.2f\u00d7", pt.ratio()))
		}
	}
	// The legend stands below, for both panels.
	for i, legend := range legends {
		x := width/2 + vg.Length(i-1)*legendWidth
		legend.Draw(vgdraw.Crop(all, x, 0, 0, margin+4.2*captionSize-height))
	}
	caption := bySize.X.Label.TextStyle
	caption.Font.Size = captionSize
	caption.Color = dimColor
	caption.XAlign, caption.YAlign = vgdraw.XCenter, vgdraw.YBottom
	all.FillText(caption, vg.Point{X: width / 2, Y: margin + 1.4*captionSize}, r.rounds()+"; "+where+"; snappy "+r.snappy)
	all.FillText(caption, vg.Point{X: width / 2, Y: margin}, r.machine())

	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	// The library names the font that it measured texts with and nothing in its place. Arial is as
	// wide.
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")), nil
}

// rounds says what a point is.
func (r *results) rounds() string {
	n := math.MaxInt
	for _, p := range slices.Concat(r.sizes, r.conns) {
		n = min(n, len(p.geth), len(p.rlpx))
	}
	if n == 1 {
		return "one round"
	}
	return fmt.Sprintf("medians of %d interleaved rounds, bars from the lowest to the highest", n)
}

// machine says where it was measured, as far as the output tells.
func (r *results) machine() string {
	var parts []string
	for _, key := range []string{"cpu", "go"} {
		if v := r.header[key]; v != "" {
			parts = append(parts, v)
		}
	}
	if r.header["goos"] != "" {
		parts = append(parts, r.header["goos"]+"/"+r.header["goarch"])
	}
	parts = append(parts, "GOMAXPROCS "+r.procs)
	if v := r.header["godebug"]; v != "" {
		parts = append(parts, "GODEBUG "+v)
	}
	return strings.Join(parts, ", ")
}

// panel is one of the two plots, without a legend; those of its curves come beside it.
func panel(xLabel string, points []*point, logarithmic bool) (p *plot.Plot, legends []plot.Legend, err error) {
	p = plot.New()
	p.X.Label.Text = xLabel
	p.X.Label.Padding = 4
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
		style.Font.Size = textSize
	}
	p.Title.TextStyle.Font.Size = titleSize
	p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = vgdraw.XCenter, vgdraw.YTop

	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticksOf(points)
	top := 0.0
	bottom := math.Inf(1)
	for _, pt := range points {
		top = max(top, slices.Max(pt.geth), slices.Max(pt.rlpx))
		bottom = min(bottom, slices.Min(pt.geth), slices.Min(pt.rlpx))
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColor, gridColor
	p.Add(grid)
	for _, side := range []struct {
		name   string
		color  color.Color
		shape  vgdraw.GlyphDrawer
		dashes []vg.Length
		of     func(*point) []float64
	}{
		{"go-ethereum", gethColor, vgdraw.BoxGlyph{}, []vg.Length{5, 3}, func(p *point) []float64 { return p.geth }},
		{"this library", rlpxColor, vgdraw.CircleGlyph{}, nil, func(p *point) []float64 { return p.rlpx }},
	} {
		s := newSeries(points, side.of)
		curve, marks, err := plotter.NewLinePoints(s)
		if err != nil {
			return nil, nil, err
		}
		curve.Color, curve.Width, curve.Dashes = side.color, 1.5, side.dashes
		marks.Color, marks.Shape, marks.Radius = side.color, side.shape, 3
		bars, err := plotter.NewYErrorBars(s)
		if err != nil {
			return nil, nil, err
		}
		bars.LineStyle.Color, bars.LineStyle.Width, bars.CapWidth = side.color, 0.6, 4
		p.Add(bars, curve, marks)
		legend := plot.NewLegend()
		legend.TextStyle, legend.Left, legend.Top, legend.Padding, legend.ThumbnailWidth = p.Legend.TextStyle, true, true, 3, 28
		legend.Add(side.name, curve, marks)
		legends = append(legends, legend)
	}
	if logarithmic {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(decades(bottom, top))
		p.Y.Min, p.Y.Max = bottom/1.3, top*1.3
	} else {
		p.Y.Min, p.Y.Max = 0, top*1.05
		p.Y.Tick.Marker = plot.ConstantTicks(round(p.Y.Max))
	}
	p.X.Min, p.X.Max = points[0].x/1.3, points[len(points)-1].x*1.3
	return p, legends, nil
}

// series is one implementation's medians and extremes.
type series struct {
	plotter.XYs
	plotter.YErrors
}

func newSeries(points []*point, of func(*point) []float64) series {
	s := series{make(plotter.XYs, len(points)), make(plotter.YErrors, len(points))}
	for i, p := range points {
		values := of(p)
		m := median(values)
		s.XYs[i] = plotter.XY{X: p.x, Y: m}
		s.YErrors[i].Low, s.YErrors[i].High = m-slices.Min(values), slices.Max(values)-m
	}
	return s
}

// ticksOf puts a tick at every point.
func ticksOf(points []*point) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, p := range points {
		ticks = append(ticks, plot.Tick{Value: p.x, Label: spaced(p.label)})
	}
	return ticks
}

// decades are 1, 2 and 5 times the powers of ten between bottom and top.
func decades(bottom, top float64) (ticks []plot.Tick) {
	for d := math.Pow10(int(math.Floor(math.Log10(bottom)))); d <= top*1.3; d *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if v := m * d; v >= bottom/1.3 && v <= top*1.3 {
				ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
			}
		}
	}
	return ticks
}

// round are some multiples of a round number from 0 to top.
func round(top float64) (ticks []plot.Tick) {
	const most = 6
	step := math.Pow10(int(math.Floor(math.Log10(top / most))))
	for _, m := range []float64{2, 5, 10} {
		if top/step <= most {
			break
		}
		step = m * math.Pow10(int(math.Floor(math.Log10(top/most))))
	}
	for v := 0.0; v <= top; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
	}
	return ticks
}

// spaced puts a space between a number and its unit.
func spaced(label string) string {
	i := strings.IndexFunc(label, func(r rune) bool { return r < '0' || r > '9' })
	if i <= 0 {
		return label
	}
	return label[:i] + " " + label[i:]
}
