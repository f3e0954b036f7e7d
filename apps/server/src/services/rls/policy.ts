// A policy that somebody wishes for, checked for sense and written as SQL.
import type { PolicyCommand, PolicyWish } from '@plinth/contract/rls.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { inParentheses } from '#src/kernel/postgres/expression.ts'
import { identifier } from '#src/kernel/postgres/sql.ts'

export function createPolicy(table: string, wish: PolicyWish): string {
  // Its pattern admits these words only.
  const command = (wish.command ?? 'ALL').toUpperCase() as PolicyCommand
  refuseSenseless(command, wish)
  const { name, using, with_check, roles = ['public'], permissive = true } = wish
  return [
    `create policy ${identifier(name)} on ${table}`,
    `as ${permissive ? 'permissive' : 'restrictive'}`,
    `for ${command.toLowerCase()}`,
    // Of a closed list; PUBLIC is a word and no name.
    `to ${[...new Set(roles)].join(', ')}`,
    ...(using === undefined ? [] : [`using ${inParentheses(using, 'Field "using"')}`]),
    ...(with_check === undefined ? [] : [`with check ${inParentheses(with_check, 'Field "with_check"')}`]),
  ].join('\n')
}

function refuseSenseless(command: PolicyCommand, { using, with_check }: PolicyWish): void {
  if (command === 'INSERT' && using !== undefined)
    throw senseless('A policy for INSERT judges new rows only: give "with_check" instead of "using"')
  if ((command === 'SELECT' || command === 'DELETE') && with_check !== undefined)
    throw senseless(
      `A policy for ${command} judges rows that are there: give "using" instead of "with_check"`,
    )
  if (using === undefined && with_check === undefined)
    throw senseless(
      `A policy needs an expression: ${command === 'INSERT' ? '"with_check"' : '"using"'} says which rows it is about ("true" for all)`,
    )
}

const senseless = (message: string) => new Refusal('invalid_request', message)
