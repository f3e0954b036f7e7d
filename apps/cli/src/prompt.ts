// Prompts are written to stderr, because stdout is for the result.
import { createInterface } from 'node:readline'
import type { Context } from './context.ts'
import { Failure, Interrupted } from './failure.ts'
import type { Input } from './io.ts'

type Terminal = Pick<Context, 'stdin' | 'stderr'>

export async function ask({ stdin, stderr }: Terminal, question: string): Promise<string> {
  const lines = createInterface({ input: stdin, output: stderr })
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.once('SIGINT', () => reject(new Interrupted()))
      lines.once('close', () => reject(new Interrupted()))
      lines.question(question, resolve)
    })
  } finally {
    lines.close()
  }
}

export async function askSecret({ stdin, stderr }: Terminal, question: string): Promise<string> {
  // Before the question, so that an answer typed at once is not echoed.
  stdin.setRawMode?.(true)
  stderr.write(question)
  stdin.setEncoding('utf8')
  try {
    return await readWithoutEcho(stdin)
  } finally {
    stdin.setRawMode?.(false)
    stdin.pause()
    stderr.write('\n')
  }
}

function readWithoutEcho(stdin: Input): Promise<string> {
  return new Promise((resolve, reject) => {
    let typed = ''
    const read = (chunk: string) => {
      const keys = [...chunk]
      const end = keys.findIndex(key => '\r\n\x03\x04'.includes(key))
      typed = applyKeys(typed, end < 0 ? keys : keys.slice(0, end))
      if (end < 0) return
      stdin.off('data', read)
      if (keys[end] === '\r' || keys[end] === '\n') resolve(typed)
      else reject(new Interrupted()) // Ctrl-C, Ctrl-D
    }
    stdin.on('data', read)
    stdin.resume()
  })
}

/** Raw mode delivers single keys: backspace removes one character, Ctrl-U all; escape sequences are ignored. */
function applyKeys(before: string, keys: readonly string[]): string {
  let typed = [...before]
  for (const key of keys) {
    if (key === '\x1b') break
    if (key === '\x7f' || key === '\b') typed.pop()
    else if (key === '\x15') typed = []
    else if (key >= ' ') typed.push(key)
  }
  return typed.join('')
}

/** The first line of stdin, for passwords from a pipe. */
export async function firstLine(stdin: Input): Promise<string> {
  let text = ''
  for await (const chunk of stdin.setEncoding('utf8')) {
    text += chunk
    if (text.includes('\n')) break
  }
  return text.split('\n')[0]!.replace(/\r$/, '')
}

/** Prompts twice without echo in a terminal, otherwise reads stdin. */
export async function newPassword({ stdin, stderr, screen }: Context): Promise<string> {
  if (!screen.isInteractive) {
    const piped = stdin.isTTY ? '' : await firstLine(stdin)
    if (piped !== '') return piped
    throw new Failure(
      'prompt_impossible',
      'A password is needed, and there is no terminal to ask for it.',
      'Write it to standard input as the first line.',
    )
  }
  const terminal = { stdin, stderr }
  const password = await askSecret(terminal, 'Password: ')
  if (password === (await askSecret(terminal, 'Repeat it: '))) return password
  throw new Failure('password_mismatch', 'The two passwords differ.', 'Run the command again.')
}
