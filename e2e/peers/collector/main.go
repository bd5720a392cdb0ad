// A collector of traces: the OTLP receiver of the OpenTelemetry Collector, and a consumer that prints what it gets, a line of OTLP JSON for
// each request.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func main() {
	endpoint := flag.String("endpoint", "127.0.0.1:4318", "where it listens, by HTTP")
	flag.Parse()
	if err := run(*endpoint); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(endpoint string) error {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	said := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": endpoint}}})
	if err := said.Unmarshal(config); err != nil {
		return err
	}
	var mutex sync.Mutex
	marshaler := ptrace.JSONMarshaler{}
	sink, err := consumer.NewTraces(func(_ context.Context, traces ptrace.Traces) error {
		line, err := marshaler.MarshalTraces(traces)
		if err != nil {
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		_, err = fmt.Printf("%s\n", line)
		return err
	})
	if err != nil {
		return err
	}
	settings := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	made, err := factory.CreateTraces(context.Background(), settings, config, sink)
	if err != nil {
		return err
	}
	if err := made.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
	return made.Shutdown(context.Background())
}
