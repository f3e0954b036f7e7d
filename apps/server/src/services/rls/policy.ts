// Validates a new policy and builds its SQL.
import type { PolicyCommand, PolicyInput } from '@plinth/contract/rls.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { inParentheses } from '#src/kernel/postgres/expression.ts'
import { identifier } from '#src/kernel/postgres/sql.ts'

export function createPolicy(table: string, input: PolicyInput): string {
  // The schema of the request allows these words only.
  const command = (input.command ?? 'ALL').toUpperCase() as PolicyCommand
  refuseSenseless(command, input)
  const { name, using, with_check, roles = ['public'], permissive = true } = input
  return [
    `create policy ${identifier(name)} on ${table}`,
    `as ${permissive ? 'permissive' : 'restrictive'}`,
    `for ${command.toLowerCase()}`,
    // The schema allows only known roles. PUBLIC is a keyword and must not be quoted.
    `to ${[...new Set(roles)].join(', ')}`,
    ...(using === undefined ? [] : [`using ${inParentheses(using, 'Field "using"')}`]),
    ...(with_check === undefined ? [] : [`with check ${inParentheses(with_check, 'Field "with_check"')}`]),
  ].join('\n')
}

function refuseSenseless(command: PolicyCommand, { using, with_check }: PolicyInput): void {
  if (command === 'INSERT' && using !== undefined)
    throw senseless('A policy for INSERT checks new rows only: give "with_check" instead of "using"')
  if ((command === 'SELECT' || command === 'DELETE') && with_check !== undefined)
    throw senseless(`A policy for ${command} checks existing rows only: give "using" instead of "with_check"`)
  if (using === undefined && with_check === undefined)
    throw senseless(
      `A policy needs an expression: ${command === 'INSERT' ? '"with_check"' : '"using"'} says which rows it is about ("true" for all)`,
    )
}

const senseless = (message: string) => new Refusal('invalid_request', message)
