// Questions are asked on stderr, so that stdout stays the result. Nothing here is called without a terminal.
import { createInterface } from 'node:readline'
import { Failure, Interrupted } from './failure.ts'

export async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
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

export async function askSecret(question: string): Promise<string> {
  const { stdin, stderr } = process
  // First, so that nothing is echoed of an answer that comes at once.
  stdin.setRawMode(true)
  stderr.write(question)
  stdin.setEncoding('utf8')
  try {
    return await typedUnseen(stdin)
  } finally {
    stdin.setRawMode(false)
    stdin.pause()
    stderr.write('\n')
  }
}

function typedUnseen(stdin: NodeJS.ReadStream): Promise<string> {
  return new Promise((resolve, reject) => {
    let typed = ''
    const read = (chunk: string) => {
      const keys = [...chunk]
      const end = keys.findIndex(key => '\r\n\x03\x04'.includes(key))
      typed = edited(typed, end < 0 ? keys : keys.slice(0, end))
      if (end < 0) return
      stdin.off('data', read)
      if (keys[end] === '\r' || keys[end] === '\n') resolve(typed)
      else reject(new Interrupted()) // Ctrl-C, Ctrl-D
    }
    stdin.on('data', read)
    stdin.resume()
  })
}

/** Raw mode hands us the keys: backspace takes one back, Ctrl-U all, arrows and the like mean nothing. */
function edited(before: string, keys: readonly string[]): string {
  let typed = [...before]
  for (const key of keys) {
    if (key === '\x1b') break
    if (key === '\x7f' || key === '\b') typed.pop()
    else if (key === '\x15') typed = []
    else if (key >= ' ') typed.push(key)
  }
  return typed.join('')
}

/** The first line of stdin, for passwords that come through a pipe. */
export async function firstLineOfStdin(): Promise<string> {
  let text = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk
    if (text.includes('\n')) break
  }
  return text.split('\n')[0]!.replace(/\r$/, '')
}

/** Asked twice with echo off in a terminal, otherwise read from stdin. */
export async function newPassword(isInteractive: boolean): Promise<string> {
  if (!isInteractive) {
    const piped = process.stdin.isTTY ? '' : await firstLineOfStdin()
    if (piped !== '') return piped
    throw new Failure(
      'prompt_impossible',
      'A password is needed and nobody can be asked for it here.',
      'Send it as the first line of standard input.',
    )
  }
  const password = await askSecret('Password: ')
  if (password === (await askSecret('Again: '))) return password
  throw new Failure('password_mismatch', 'The two passwords differ.', 'Run the command again.')
}
