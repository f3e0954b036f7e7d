import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Context } from './context.ts'
import { Failure } from './failure.ts'

/** How a message names the file. */
export const inputName = (file: string): string => (file === '-' ? 'Standard input' : file)

/** A file from the working directory; `-` is standard input. */
export async function readInput({ cwd, stdin }: Context, file: string): Promise<string> {
  try {
    return file === '-' ? await text(stdin) : await readFile(resolve(cwd, file), 'utf8')
  } catch (cause) {
    const message = `${inputName(file)} cannot be read: ${(cause as Error).message}.`
    throw new Failure('file_unreadable', message, null, cause)
  }
}
