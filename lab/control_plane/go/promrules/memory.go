package main

import (
	"context"
	"errors"
	"sort"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// memory is a storage of floats. What was given and ends has no marker of its end, as in Cloud Monitoring.
type memory struct {
	byName map[string][]*promql.Series
	byHash map[uint64]*promql.Series
}

type appender struct {
	storage.Appender // histograms and exemplars: never called

	into *memory
}

func (m *memory) Appender(context.Context) storage.Appender { return appender{into: m} }

func (a appender) Commit() error { return nil }

func (a appender) Append(_ storage.SeriesRef, named labels.Labels, at int64, value float64) (storage.SeriesRef, error) {
	return 0, a.into.add(named, at, value)
}

func (m *memory) add(named labels.Labels, at int64, value float64) error {
	into := m.byHash[named.Hash()]
	if into == nil {
		into = &promql.Series{Metric: named}
		name := named.Get(labels.MetricName)
		m.byHash[named.Hash()], m.byName[name] = into, append(m.byName[name], into)
	}
	if last := len(into.Floats) - 1; last >= 0 && into.Floats[last].T >= at {
		return storage.ErrDuplicateSampleForTimestamp
	}
	into.Floats = append(into.Floats, promql.FPoint{T: at, F: value})
	return nil
}

func (m *memory) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: m.matching}, nil
}

func (m *memory) matching(_ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	for _, name := range matchers {
		if name.Name == labels.MetricName && name.Type == labels.MatchEqual {
			found := &seriesSet{}
			for _, one := range m.byName[name.Value] {
				if matches(one.Metric, matchers) {
					// The engine looks at samples one by one: it gets those that it asked for.
					first := sort.Search(len(one.Floats), func(i int) bool { return one.Floats[i].T >= hints.Start })
					end := sort.Search(len(one.Floats), func(i int) bool { return one.Floats[i].T > hints.End })
					found.series = append(found.series, promql.Series{Metric: one.Metric, Floats: one.Floats[first:end]})
				}
			}
			return found
		}
	}
	return storage.ErrSeriesSet(errors.New("a selector without a metric's name: Cloud Monitoring refuses it"))
}

func matches(named labels.Labels, matchers []*labels.Matcher) bool {
	for _, one := range matchers {
		if !one.Matches(named.Get(one.Name)) {
			return false
		}
	}
	return true
}

type seriesSet struct {
	series []promql.Series
	next   int
}

func (s *seriesSet) Next() bool                        { s.next++; return s.next <= len(s.series) }
func (s *seriesSet) At() storage.Series                { return promql.NewStorageSeries(s.series[s.next-1]) }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
