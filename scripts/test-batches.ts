// Runs many test files in one process: starting a process and loading the server costs more than most files take. Each
// file becomes a suite of a generated file, with its own hooks; the suites of a batch run one after the other.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** The generated files, in the order given. */
export function writeBatches(batches: readonly (readonly string[])[], directory: string): string[] {
  mkdirSync(directory, { recursive: true })
  return batches.map((files, at) => {
    const path = join(directory, `batch-${String(at + 1).padStart(3, '0')}.test.mjs`)
    writeFileSync(path, textOf(files))
    return path
  })
}

const textOf = (files: readonly string[]): string => `import { describe } from 'node:test'
for (const [name, path] of ${JSON.stringify(files.map(file => [file, resolve(file)]))})
  describe(name, async () => {
    await import(path)
  })
`

/** Neighbours together, so that a batch loads the same modules; about as many in each. */
export function inBatches(files: readonly string[], size: number): string[][] {
  const count = Math.ceil(files.length / size)
  return Array.from({ length: count }, (_, at) =>
    files.slice(Math.round((at * files.length) / count), Math.round(((at + 1) * files.length) / count)),
  )
}
