// Simulates what a role and user can read or write in a table. The command runs as that role with those claims and is rolled
// back. Postgres does not report which policy decided. So each policy expression is also evaluated, as the same role, on the
// values of the row.
import type { Command, Policy, RlsTest, RlsTestReply, Verdict } from '@plinth/contract/rls.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import { unknown } from '#src/services/schema/service.ts'
import type { Caller, Databases } from '#src/tenancy/databases.ts'
import { asks, attempt } from './attempts.ts'
import { requireProtectable } from './protected-table.ts'
import * as rows from './rows-store.ts'
import * as store from './store.ts'
import { verdictsOn } from './verdicts.ts'

const defaultLimit = 20

export async function simulate(
  owner: OwnerWork,
  databases: Databases,
  projectId: string,
  input: RlsTest,
): Promise<RlsTestReply> {
  const { schema = 'public', table, role, user_id, limit = defaultLimit } = input
  // The schema of the request allows these words only.
  const command = (input.command ?? 'SELECT').toUpperCase() as Command
  const given = givenRow(command, input.row)
  const claims = { ...input.claims, role, ...(user_id !== undefined && { sub: user_id }) }
  const bypasses = role === 'service_role'

  const { tenant, relation, shape, policies, before } = await owner.rehearse(
    projectId,
    async (session, tenant) => {
      const relation = await requireProtectable(session, { schema, table })
      const columns = await rows.listColumns(session, relation.oid)
      const shape = { schema, table, columns }
      for (const name of Object.keys(given))
        if (!columns.includes(name))
          throw unknown('column_not_found', 'The table has no column', name, columns)
      const counts = relation.rls_enabled && !bypasses
      const applicable = counts ? await store.listApplicable(session, relation.oid, role) : []
      await rows.pretend(session, JSON.stringify(claims), user_id ?? '')
      return {
        tenant,
        relation,
        shape,
        policies: applicable.filter(policy => isAsked(policy, command)),
        before:
          command === 'INSERT'
            ? [await rows.asInserted(session, shape, given)]
            : await rows.sample(session, shape, limit),
      }
    },
  )

  const caller: Caller = {
    tenant,
    role,
    claims: JSON.stringify(claims),
    userId: user_id ?? '',
    sessionId: '',
  }
  const ask = asks(databases, caller, command, shape)
  const outcome = await attempt(ask, command, shape, before, given, limit)
  const texts = outcome.rows.map(({ text }) => text)
  const change = command === 'UPDATE' ? given : {}
  const verdicts = await verdictsOn(ask, shape, command, policies, texts, change)

  return {
    schema,
    table,
    role,
    user_id: user_id ?? null,
    claims,
    command,
    rls_enabled: relation.rls_enabled,
    bypasses_rls: bypasses,
    policies,
    rows: outcome.rows.map(({ text, allowed, error }, place) => ({
      row: JSON.parse(text),
      allowed,
      error,
      verdicts: verdicts.map((each): Verdict => each[place]!),
    })),
    error: outcome.error,
    rolled_back: true,
  }
}

function givenRow(command: Command, row: RlsTest['row']): Record<string, unknown> {
  const needsRow = command === 'INSERT' || command === 'UPDATE'
  if (needsRow && row === undefined)
    throw new Refusal(
      'invalid_request',
      `To test ${command}, give "row": ${command === 'INSERT' ? 'the row to insert' : 'the values to set'}`,
    )
  if (!needsRow && row !== undefined)
    throw new Refusal(
      'invalid_request',
      `"row" is for INSERT and UPDATE; ${command} takes the rows there are`,
    )
  if (command === 'UPDATE' && Object.keys(row!).length === 0)
    throw new Refusal('invalid_request', '"row" must hold at least one value to set')
  return row ?? {}
}

/** An UPDATE or DELETE with a condition reads rows, so the SELECT policies apply as well. */
const isAsked = ({ command }: Policy, wanted: Command): boolean =>
  command === wanted || command === 'ALL' || (command === 'SELECT' && wanted !== 'INSERT')
