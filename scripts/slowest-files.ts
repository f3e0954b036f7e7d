// A reporter of node:test that prints the slowest test files at the end. A file is a suite of a batch, see test-batches.ts.

interface TestEvent {
  type: string
  data: { name?: string; nesting?: number; details?: { duration_ms?: number; type?: string } }
}

const maxFiles = 10

// biome-ignore lint/style/noDefaultExport: node:test loads a reporter by its default export
export default async function* slowestFiles(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const files: { file: string; ms: number }[] = []
  for await (const { type, data } of events)
    if (
      (type === 'test:pass' || type === 'test:fail') &&
      data.nesting === 0 &&
      data.name?.endsWith('.test.ts')
    )
      files.push({ file: data.name, ms: data.details?.duration_ms ?? 0 })
  if (files.length <= maxFiles) return
  yield `\nThe ${maxFiles} slowest of ${files.length} files:\n`
  for (const { file, ms } of files.sort((a, b) => b.ms - a.ms).slice(0, maxFiles))
    yield `${(ms / 1000).toFixed(1).padStart(8)} s  ${file}\n`
}
