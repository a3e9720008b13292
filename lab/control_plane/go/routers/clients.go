package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// replyWait is how long a client waits for the next bytes.
const replyWait = 120 * time.Second

// times counts durations in buckets that grow by 2 %, from a microsecond.
type times struct{ counts [1200]atomic.Int64 }

func (t *times) add(duration time.Duration) {
	bucket := int(math.Log(max(1, float64(duration)/1e3)) / math.Log(1.02))
	t.counts[min(bucket, len(t.counts)-1)].Add(1)
}

// at is the duration in microseconds below which that share lies.
func (t *times) at(share float64) float64 {
	var all, passed int64
	for index := range t.counts {
		all += t.counts[index].Load()
	}
	for index := range t.counts {
		if passed += t.counts[index].Load(); passed > int64(share*float64(all)) {
			return math.Pow(1.02, float64(index)+0.5)
		}
	}
	return 0
}

// failure is one kind of error that clients saw; times in seconds since 1970.
type failure struct {
	Count int     `json:"count"`
	First float64 `json:"first"`
	Last  float64 `json:"last"`
}

// seen is the clients' account of the measured seconds.
type seen struct {
	Seconds         float64             `json:"seconds"`
	CPUSeconds      float64             `json:"cpu_seconds"`
	Requests        int64               `json:"requests"`
	Chunks          int64               `json:"chunks"`
	PeakOpen        int64               `json:"peak_open"`
	ChunkP50Us      float64             `json:"chunk_p50_us"`
	ChunkP99Us      float64             `json:"chunk_p99_us"`
	FirstP50Us      float64             `json:"first_p50_us"`
	FirstP99Us      float64             `json:"first_p99_us"`
	PickP50Us       float64             `json:"pick_p50_us,omitempty"`
	PickP99Us       float64             `json:"pick_p99_us,omitempty"`
	Failures        map[string]*failure `json:"failures"`
	LeakedAddresses int                 `json:"leaked_addresses"`
}

// clients is one run of requests.
type clients struct {
	targets []string
	pick    *picker
	pool    *pool
	// Lengths of answers in tokens, each with its share.
	lengths      []int
	shares       []float64
	stream       bool
	promptBytes  int
	groups       int
	prefixBytes  int
	measureAfter time.Time
	until        time.Time
	answerOnce   bool // each client asks once

	chunkTimes, firstTimes, pickTimes times
	requests, chunks, open, peak      atomic.Int64
	mutex                             sync.Mutex
	failures                          map[string]*failure
	leaked                            int
}

func load(arguments []string) error {
	flags := flag.NewFlagSet("clients", flag.ExitOnError)
	targets := flags.String("targets", "", "addresses, host:port, separated by commas; each connection goes to one of them at random")
	pickerAddress := flags.String("picker", "", "address of an endpoint picker that is asked for each request, and sent each chunk")
	connections := flags.Int("connections", 64, "clients, each with one connection and one request at a time")
	seconds := flags.Float64("seconds", 5, "measured time")
	warm := flags.Float64("warm", 1, "time before")
	ramp := flags.Float64("ramp", 0.5, "time over which the clients start; part of the time before")
	lengths := flags.String("lengths", "16", "tokens of an answer, or several with shares: 16:0.8,256:0.2")
	stream := flags.Bool("stream", true, "ask for chunks")
	promptBytes := flags.Int("prompt-bytes", 3000, "text of a prompt")
	groups := flags.Int("groups", 0, "prompts begin with one of so many shared texts")
	prefixBytes := flags.Int("prefix-bytes", 0, "length of the shared text")
	once := flags.Bool("once", false, "each client asks once, and waits for its answer")
	_ = flags.Parse(arguments)

	began := time.Now()
	run := &clients{
		targets: strings.Split(*targets, ","), stream: *stream, promptBytes: *promptBytes, groups: *groups, prefixBytes: *prefixBytes,
		measureAfter: began.Add(time.Duration(*warm * 1e9)), failures: map[string]*failure{}, answerOnce: *once,
	}
	run.until = run.measureAfter.Add(time.Duration(*seconds * 1e9))
	if err := run.parseLengths(*lengths); err != nil {
		return err
	}
	if *pickerAddress != "" {
		var err error
		if run.pick, err = dialPicker(*pickerAddress); err != nil {
			return err
		}
		run.pool = newPool()
	}
	var everyone sync.WaitGroup
	for number := 0; number < *connections; number++ {
		everyone.Add(1)
		go func() {
			defer everyone.Done()
			time.Sleep(time.Duration(*ramp * 1e9 * float64(number) / float64(*connections)))
			run.work(rand.New(rand.NewPCG(uint64(number), 29)))
		}()
	}
	time.Sleep(time.Until(run.measureAfter))
	before := cpuSeconds()
	if *once {
		everyone.Wait()
	} else {
		time.Sleep(time.Until(run.until))
	}
	said := run.account(cpuSeconds()-before, time.Since(run.measureAfter).Seconds())
	// Streams that are open at the end are not waited for: what follows belongs to no measurement.
	return json.NewEncoder(os.Stdout).Encode(said)
}

func (c *clients) parseLengths(text string) error {
	for _, part := range strings.Split(text, ",") {
		length, share, several := strings.Cut(part, ":")
		number, err := strconv.Atoi(length)
		if err != nil {
			return err
		}
		weight := 1.0
		if several {
			if weight, err = strconv.ParseFloat(share, 64); err != nil {
				return err
			}
		}
		c.lengths, c.shares = append(c.lengths, number), append(c.shares, weight)
	}
	return nil
}

func (c *clients) account(cpu, seconds float64) seen {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	said := seen{
		Seconds: seconds, CPUSeconds: cpu, Requests: c.requests.Load(), Chunks: c.chunks.Load(), PeakOpen: c.peak.Load(),
		ChunkP50Us: c.chunkTimes.at(0.5), ChunkP99Us: c.chunkTimes.at(0.99),
		FirstP50Us: c.firstTimes.at(0.5), FirstP99Us: c.firstTimes.at(0.99),
		Failures: c.failures, LeakedAddresses: c.leaked,
	}
	if c.pick != nil {
		said.PickP50Us, said.PickP99Us = c.pickTimes.at(0.5), c.pickTimes.at(0.99)
	}
	return said
}

// connection is a client's, kept between requests.
type connection struct {
	net.Conn
	reader *bufio.Reader
}

func dial(address string) (*connection, error) {
	raw, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: raw, reader: bufio.NewReaderSize(raw, 4096)}, nil
}

func (c *clients) work(random *rand.Rand) {
	var kept *connection
	defer func() {
		if kept != nil {
			_ = kept.Close()
		}
	}()
	for time.Now().Before(c.until) {
		body := c.body(random)
		kind := ""
		if c.pick != nil {
			kind = c.askPicked(body)
		} else {
			kept, kind = c.askKept(kept, body, random)
		}
		if kind != "" {
			c.fail(kind)
			// A client that fails at once would otherwise do nothing else.
			time.Sleep(50 * time.Millisecond)
		}
		if c.answerOnce {
			return
		}
	}
}

func (c *clients) askKept(kept *connection, body []byte, random *rand.Rand) (*connection, string) {
	if kept == nil {
		if kept = c.dialAny(random); kept == nil {
			return nil, "connect"
		}
	}
	keep, kind := c.ask(kept, body, time.Now(), func(_ []byte, _ bool) error { return nil })
	if !keep {
		_ = kept.Close()
		kept = nil
	}
	return kept, kind
}

// dialAny connects to one of the targets at random, or to another if that one refuses: a Service soon leaves out what is not ready.
func (c *clients) dialAny(random *rand.Rand) *connection {
	first := random.IntN(len(c.targets))
	for number := range c.targets {
		if one, err := dial(c.targets[(first+number)%len(c.targets)]); err == nil {
			return one
		}
	}
	return nil
}

// askPicked asks the picker, sends the request where it says, and every chunk past it, as a proxy does.
func (c *clients) askPicked(body []byte) string {
	began := time.Now()
	asked, target, err := c.pick.choose(body)
	if err != nil {
		return pickerFailed(err)
	}
	defer asked.close()
	if began.After(c.measureAfter) {
		c.pickTimes.add(time.Since(began))
	}
	used, err := c.pool.get(target)
	if err != nil {
		return "connect"
	}
	if err := asked.headers(c.stream); err != nil {
		_ = used.Close()
		return pickerFailed(err)
	}
	keep, kind := c.ask(used, body, began, asked.chunk)
	if keep {
		c.pool.put(target, used)
	} else {
		_ = used.Close()
	}
	return kind
}

// ask sends one request and reads its answer. It returns whether the connection can be kept, and the kind of error.
func (c *clients) ask(used *connection, body []byte, began time.Time, pass func([]byte, bool) error) (bool, string) {
	asked := request{}
	if json.Unmarshal(body, &asked) != nil {
		return false, "body"
	}
	open := c.open.Add(1)
	defer c.open.Add(-1)
	for peak := c.peak.Load(); open > peak && !c.peak.CompareAndSwap(peak, open); peak = c.peak.Load() {
	}
	head := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: fleet\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	_ = used.SetDeadline(time.Now().Add(replyWait))
	if _, err := used.Write(append([]byte(head), body...)); err != nil {
		return false, "send"
	}
	response, err := http.ReadResponse(used.reader, nil)
	if err != nil {
		return false, "cut before an answer"
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		if bytes.Contains(text, []byte("127.0.1.")) {
			c.mutex.Lock()
			c.leaked++
			c.mutex.Unlock()
		}
		return !response.Close, "status " + strconv.Itoa(response.StatusCode)
	}
	if err := c.read(used, response, asked, began, pass); err != nil {
		return false, err.Error()
	}
	if time.Now().After(c.measureAfter) && time.Now().Before(c.until) {
		c.requests.Add(1)
	}
	return !response.Close, ""
}

var errCut = errors.New("cut within an answer")

func (c *clients) read(used *connection, response *http.Response, asked request, began time.Time, pass func([]byte, bool) error) error {
	if !asked.Stream {
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return errCut
		}
		if time.Now().After(c.measureAfter) {
			c.firstTimes.add(time.Since(began))
			c.chunks.Add(1)
		}
		return pass(text, true)
	}
	lines := bufio.NewReaderSize(response.Body, 2048)
	tokens := 0
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return errCut
		}
		if len(line) < 8 {
			continue
		}
		if bytes.HasPrefix(line, []byte("data: [DONE]")) {
			break
		}
		sent, _ := strconv.ParseInt(string(line[len(`data: {"t":`):bytes.IndexByte(line, ',')]), 10, 64)
		tokens++
		if err := pass(line, tokens == asked.MaxTokens); err != nil {
			return errors.New(pickerFailed(err))
		}
		now := time.Now()
		if now.After(c.measureAfter) && now.Before(c.until) {
			c.chunks.Add(1)
			c.chunkTimes.add(time.Duration(now.UnixNano() - sent))
			if tokens == 1 {
				c.firstTimes.add(now.Sub(began))
			}
		}
		if tokens%16 == 0 {
			_ = used.SetDeadline(now.Add(replyWait))
		}
	}
	if tokens != asked.MaxTokens {
		return errors.New("tokens missing")
	}
	_, err := io.Copy(io.Discard, lines)
	return err
}

func (c *clients) body(random *rand.Rand) []byte {
	point, length := random.Float64(), c.lengths[len(c.lengths)-1]
	for index, share := range c.shares {
		if point -= share; point < 0 {
			length = c.lengths[index]
			break
		}
	}
	var prompt strings.Builder
	if c.groups > 0 {
		shared := rand.New(rand.NewPCG(uint64(random.IntN(c.groups)), 7))
		write(&prompt, c.prefixBytes, shared)
	}
	write(&prompt, c.promptBytes-prompt.Len(), random)
	body, _ := json.Marshal(map[string]any{"model": "measured/model", "prompt": prompt.String(), "max_tokens": length, "stream": c.stream})
	return body
}

// write adds words of random letters.
func write(text *strings.Builder, length int, random *rand.Rand) {
	for written := 0; written < length; written += 8 {
		word := random.Uint64()
		for letter := 0; letter < min(7, length-written); letter++ {
			_ = text.WriteByte('a' + byte(word>>(8*letter))%26)
		}
		if length-written > 7 {
			_ = text.WriteByte(' ')
		}
	}
}

func (c *clients) fail(kind string) {
	now := time.Now()
	if now.After(c.until) {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	at := float64(now.UnixNano()) / 1e9
	one := c.failures[kind]
	if one == nil {
		one = &failure{First: at}
		c.failures[kind] = one
	}
	one.Count++
	one.Last = at
}

// pool keeps connections to ranks, as a proxy does.
type pool struct {
	mutex sync.Mutex
	idle  map[string][]*connection
}

func newPool() *pool { return &pool{idle: map[string][]*connection{}} }

func (p *pool) get(address string) (*connection, error) {
	p.mutex.Lock()
	if free := p.idle[address]; len(free) > 0 {
		one := free[len(free)-1]
		p.idle[address] = free[:len(free)-1]
		p.mutex.Unlock()
		return one, nil
	}
	p.mutex.Unlock()
	return dial(address)
}

func (p *pool) put(address string, one *connection) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.idle[address] = append(p.idle[address], one)
}
