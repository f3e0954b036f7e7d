import type { Policy, PolicyInput, RlsStatus, RlsTest, RlsTestReply } from '@plinth/contract/rls.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import type { Platform } from '../platform.ts'
import { clean, type Paint, table } from '../print.ts'
import { openProject } from '../project.ts'

export async function status(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const tables = await everyStatus(context, platform, id)
  const open = tables.filter(({ enabled }) => !enabled)
  return {
    data: { tables, total: tables.length },
    hints:
      open.length === 0 ? [] : [`Every role sees every row of ${open.map(each => each.table).join(', ')}.`],
    text: paint =>
      tables.length === 0
        ? ''
        : table(
            paint,
            ['TABLE', 'ENABLED', 'FORCED', 'POLICIES'],
            tables.map(each => [each.table, yes(each.enabled), yes(each.forced), each.policy_count]),
          ),
  }
}

const yes = (is: boolean) => (is ? 'yes' : 'no')
const schemaIn = ({ given }: Context) => (given.values['schema'] ? { schema: given.values['schema'] } : {})

const everyStatus = (context: Context, platform: Platform, id: string): Promise<RlsStatus[]> =>
  everyPage(page =>
    platform.rls
      .status({ params: { id }, query: { ...page, ...schemaIn(context) } })
      .then(({ tables, total }) => ({ items: tables, total })),
  )

export const enable = (context: Context) => toggle(context, 'enable')
export const disable = (context: Context) => toggle(context, 'disable')

async function toggle(context: Context, word: 'enable' | 'disable'): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const name = context.given.values['table']!
  const state = await platform.rls[word]({ params: { id, table: name }, query: schemaIn(context) })
  const effect = state.enabled
    ? state.policy_count === 0
      ? 'without a policy only service_role sees rows'
      : 'its policies decide which rows a role sees'
    : 'every role sees every row'
  return {
    data: state,
    text: () => `Row-level security of ${clean(name)} is ${state.enabled ? 'on' : 'off'}: ${effect}.`,
  }
}

export async function policies(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const wanted = context.given.values['table']
  const names = wanted
    ? [wanted]
    : (await everyStatus(context, platform, id)).filter(each => each.policy_count > 0).map(each => each.table)
  const found: Policy[] = []
  for (const name of names)
    found.push(
      ...(await everyPage<Policy>(page =>
        platform.rls
          .listPolicies({ params: { id, table: name }, query: { ...page, ...schemaIn(context) } })
          .then(reply => ({ items: reply.policies, total: reply.total })),
      )),
    )
  return {
    data: { policies: found, total: found.length },
    hints: found.length === 0 ? ['No policies yet: plinth rls policy create creates one.'] : [],
    text: paint => (found.length === 0 ? '' : policyTable(paint, found)),
  }
}

const policyTable = (paint: Paint, found: readonly Policy[]) =>
  table(
    paint,
    ['TABLE', 'NAME', 'COMMAND', 'ROLES', 'KIND', 'USING', 'WITH CHECK'],
    found.map(each => [
      each.table,
      each.name,
      each.command,
      each.roles.join(', '),
      each.permissive ? 'permissive' : 'restrictive',
      each.using,
      each.with_check,
    ]),
  )

export async function createPolicy(context: Context): Promise<Answer> {
  const { values, switches } = context.given
  const { name, command, using, role } = values
  const check = values['with-check']
  const body = {
    name: name!,
    ...(command && { command }),
    ...(using && { using }),
    ...(check && { with_check: check }),
    ...(role && { roles: role.split(',').map(each => each.trim()) as PolicyInput['roles'] }),
    ...(switches.has('restrictive') && { permissive: false }),
  } as PolicyInput
  const { platform, id } = await openProject(context)
  const params = { id, table: values['table']! }
  const created = await platform.rls.createPolicy({ params, query: schemaIn(context), body })
  return { data: created, text: paint => policyTable(paint, [created]) }
}

export async function dropPolicy(context: Context): Promise<Answer> {
  const { table: of, name } = context.given.values
  const { platform, id } = await openProject(context)
  await platform.rls.dropPolicy({ params: { id, table: of!, name: name! }, query: schemaIn(context) })
  return {
    data: { table: of, policy: name, dropped: true },
    text: () => `Dropped the policy ${clean(name!)} of ${clean(of!)}.`,
  }
}

export async function test(context: Context): Promise<Answer> {
  const { values } = context.given
  const body = {
    table: values['table']!,
    role: values['role'] as RlsTest['role'],
    ...schemaIn(context),
    ...(values['user'] && { user_id: values['user'] }),
    ...(values['command'] && { command: values['command'] }),
    ...objectIn('claims', values['claims']),
    ...objectIn('row', values['row']),
    ...(values['limit'] && { limit: Number(values['limit']) }),
  }
  const { platform, id } = await openProject(context)
  const reply = await platform.rls.test({ params: { id }, body })
  return {
    data: reply,
    text: paint => testText(paint, reply),
    hints: [
      ...(reply.rls_enabled
        ? []
        : ['Row-level security is off on this table, so its policies have no effect.']),
      ...(reply.bypasses_rls ? ['service_role bypasses all policies.'] : []),
      ...(reply.error ? [`${reply.error.message} (${reply.error.code})`] : []),
    ],
  }
}

function objectIn(flag: string, json: string | undefined): Record<string, object> {
  if (json === undefined) return {}
  try {
    const value: unknown = JSON.parse(json)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { [flag]: value }
  } catch {}
  throw new Failure('usage_invalid_value', `--${flag} must be a JSON object, such as '{"id": 1}'.`)
}

function testText(paint: Paint, { rows, policies: tested, command, role, user_id }: RlsTestReply): string {
  const who = user_id === null ? role : `${role} ${user_id}`
  const passed = rows.filter(({ allowed }) => allowed).length
  const head = `${paint.bold(clean(who))}: ${command} passes for ${passed} of ${rows.length} tested rows. The test was rolled back.`
  if (rows.length === 0) return head
  const verdicts = rows.map(({ row, allowed, error, verdicts: results }) => [
    allowed ? 'yes' : 'no',
    ...results.map(
      each => each.error ?? [each.using, each.with_check].filter(result => result !== null).join(' / '),
    ),
    error ? error.message : null,
    JSON.stringify(row),
  ])
  return [
    head,
    '',
    table(paint, ['PASSES', ...tested.map(each => each.name), 'ERROR', 'ROW'], verdicts),
  ].join('\n')
}
