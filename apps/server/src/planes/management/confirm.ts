import { Refusal } from '#src/kernel/errors.ts'

/** Destructive requests must repeat the name in `confirm`. Called before any other check. */
export function requireEcho(name: string, confirm: string | undefined): void {
  if (confirm === name) return
  const said = confirm === undefined ? 'it is missing' : `it is ${JSON.stringify(confirm)}`
  throw new Refusal(
    'confirmation_mismatch',
    `The query parameter "confirm" must repeat the name ${JSON.stringify(name)}, but ${said}; nothing was done`,
  )
}
