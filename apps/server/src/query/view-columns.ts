// Where the columns of a view come from, read from the rule Postgres keeps for it.
import { isNode, parseNodeTree, type Tree, type TreeNode } from './node-tree.ts'

export interface ViewColumn {
  name: string
  /** The relation (by oid) and column (by number) it shows as they are; that relation may itself be a view. */
  table?: number
  column?: number
  /** A plain reference that no outer join can turn into null; what the column itself allows comes on top. */
  isNullable: boolean
}

const plainRelation = '0'

/** `evAction` is pg_rewrite.ev_action of a view's _RETURN rule. */
export function viewColumns(evAction: string): ViewColumn[] {
  const [query] = parseNodeTree(evAction) as Tree[]
  if (!isNode(query)) return []
  return list(query.fields['targetList'])
    .filter(entry => isNode(entry) && entry.fields['resjunk'] !== 'true')
    .map(entry => columnOf(entry as TreeNode, query))
}

function columnOf({ fields }: TreeNode, query: TreeNode): ViewColumn {
  const name = String(fields['resname'])
  const table = Number(fields['resorigtbl'])
  if (!table) return { name, isNullable: true }
  const expression = fields['expr']
  return {
    name,
    table,
    column: Number(fields['resorigcol']),
    isNullable: !(isNode(expression) && isAlwaysThere(expression, query)),
  }
}

/** A row of a plain relation of this query, on no nullable side; servers before 16 do not say, and count as nullable. */
function isAlwaysThere({ kind, fields }: TreeNode, query: TreeNode): boolean {
  if (kind !== 'VAR' || fields['varlevelsup'] !== '0') return false
  const nulledBy = fields['varnullingrels']
  if (!Array.isArray(nulledBy) || nulledBy.length > 1) return false
  const source = list(query.fields['rtable'])[Number(fields['varno']) - 1]
  return isNode(source) && source.fields['rtekind'] === plainRelation
}

const list = (tree: Tree | undefined): Tree[] => (Array.isArray(tree) ? tree : [])
