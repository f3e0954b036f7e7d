// A reporter of node:test that prints the error of a test as soon as it has failed. The `spec` reporter prints them at the end of
// the run, which one that is stopped never reaches.
import { inspect } from 'node:util'

interface TestEvent {
  type: string
  data: { name?: string; details?: { type?: string; error?: Error } }
}

// biome-ignore lint/style/noDefaultExport: node:test loads a reporter by its default export
export default async function* failuresAtOnce(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    const { type: kind, error } = data.details ?? {}
    if (type === 'test:fail' && kind !== 'suite' && error)
      yield `\nFailed: ${data.name}\n${inspect(error.cause ?? error)}\n`
  }
}
