package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync/atomic"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ext "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// proxyThreads is the number of connections to the picker: a proxy has one for each of its threads.
const proxyThreads = 4

// destination is the header in which a picker names the server.
const destination = "x-gateway-destination-endpoint"

// picker is an endpoint picker, spoken to as a proxy does: one stream a request, for its life, in the mode
// FULL_DUPLEX_STREAMED.
type picker struct {
	clients []ext.ExternalProcessorClient
	turn    atomic.Uint64
}

// picked is one request's stream.
type picked struct {
	stream ext.ExternalProcessor_ProcessClient
	cancel context.CancelFunc
}

func dialPicker(address string) (*picker, error) {
	found := &picker{}
	for range proxyThreads {
		// Its certificate is its own; a proxy does not check it either.
		transport := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		one, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport))
		if err != nil {
			return nil, err
		}
		found.clients = append(found.clients, ext.NewExternalProcessorClient(one))
	}
	return found, nil
}

// choose sends a request's headers and body and returns the server that the picker names.
func (p *picker) choose(body []byte) (*picked, string, error) {
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := p.clients[p.turn.Add(1)%proxyThreads].Process(ctx)
	if err != nil {
		cancel()
		return nil, "", err
	}
	one := &picked{stream: stream, cancel: cancel}
	target, err := one.target(body)
	if err != nil {
		one.close()
		return nil, "", err
	}
	return one, target, nil
}

func (p *picked) target(body []byte) (string, error) {
	headers := &core.HeaderMap{Headers: []*core.HeaderValue{
		{Key: ":method", RawValue: []byte("POST")}, {Key: ":path", RawValue: []byte("/v1/completions")},
		{Key: "content-type", RawValue: []byte("application/json")},
	}}
	if err := p.stream.Send(&ext.ProcessingRequest{Request: &ext.ProcessingRequest_RequestHeaders{
		RequestHeaders: &ext.HttpHeaders{Headers: headers},
	}}); err != nil {
		return "", err
	}
	if err := p.stream.Send(&ext.ProcessingRequest{Request: &ext.ProcessingRequest_RequestBody{
		RequestBody: &ext.HttpBody{Body: body, EndOfStream: true},
	}}); err != nil {
		return "", err
	}
	target := ""
	for {
		said, err := p.stream.Recv()
		if err != nil {
			return "", err
		}
		switch answer := said.Response.(type) {
		case *ext.ProcessingResponse_RequestHeaders:
			for _, header := range answer.RequestHeaders.GetResponse().GetHeaderMutation().GetSetHeaders() {
				if header.Header.Key == destination {
					target = string(header.Header.RawValue) + header.Header.Value
				}
			}
		case *ext.ProcessingResponse_RequestBody:
			if answer.RequestBody.GetResponse().GetBodyMutation().GetStreamedResponse().GetEndOfStream() {
				if target == "" {
					return "", fmt.Errorf("no %s", destination)
				}
				return target, nil
			}
		case *ext.ProcessingResponse_ImmediateResponse:
			return "", fmt.Errorf("status %d", answer.ImmediateResponse.GetStatus().GetCode())
		}
	}
}

// headers passes the answer's headers.
func (p *picked) headers(stream bool) error {
	kind := "application/json"
	if stream {
		kind = "text/event-stream; charset=utf-8"
	}
	if err := p.stream.Send(&ext.ProcessingRequest{Request: &ext.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &ext.HttpHeaders{Headers: &core.HeaderMap{Headers: []*core.HeaderValue{
			{Key: ":status", RawValue: []byte("200")}, {Key: "content-type", RawValue: []byte(kind)},
		}}},
	}}); err != nil {
		return err
	}
	_, err := p.stream.Recv()
	return err
}

// chunk passes a part of the answer's body, and waits until it is back.
func (p *picked) chunk(body []byte, last bool) error {
	if err := p.stream.Send(&ext.ProcessingRequest{Request: &ext.ProcessingRequest_ResponseBody{
		ResponseBody: &ext.HttpBody{Body: body, EndOfStream: last},
	}}); err != nil {
		return err
	}
	_, err := p.stream.Recv()
	return err
}

// pickerFailed is the kind of a picker's error.
func pickerFailed(err error) string { return "picker: " + status.Code(err).String() }

func (p *picked) close() {
	_ = p.stream.CloseSend()
	p.cancel()
}
