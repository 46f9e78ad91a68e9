"""The style of a profile's page, light and dark."""

__all__ = ["STYLE"]

STYLE = """
:root{--bg:#f5f7fa;--panel:#fff;--ink:#18212c;--muted:#647487;--line:#e2e8ef;--blue:#1f6fb2;--soft:#dbe9f6;
--warm:#d9691e;--green:#2e8b57;--violet:#7a4fb5;--track:#edf1f5}
@media (prefers-color-scheme:dark){:root{--bg:#0f141a;--panel:#171e27;--ink:#e6ecf3;--muted:#93a3b5;--line:#273240;
--blue:#5aa9e6;--soft:#1d3850;--warm:#f0935a;--green:#5fc08a;--violet:#b497e7;--track:#222c38}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
-webkit-font-smoothing:antialiased}
header,main,footer{max-width:1120px;margin:0 auto;padding:0 24px}
header{padding-top:40px}.eyebrow{margin:0;color:var(--muted);font-size:13px;letter-spacing:.06em;
text-transform:uppercase}
h1{margin:2px 0 4px;font-size:28px;line-height:1.2;overflow-wrap:anywhere}.lead{margin:0 0 24px;color:var(--muted)}
.lead b{color:var(--ink)}
h2{margin:56px 0 12px;font-size:23px;overflow-wrap:anywhere}
h3{margin:0 0 12px;font-size:15px}h3 small{margin-left:8px;color:var(--muted);font-weight:400}
section>h3{margin:28px 0 12px;font-size:17px}
.panel{background:var(--panel);border:1px solid var(--line);border-radius:12px;padding:18px 20px;margin-bottom:16px;
min-width:0}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(420px,100%),1fr));gap:0 16px}
.muted,small{color:var(--muted)}
dl{margin:0}dt{color:var(--muted);font-size:12px}dd{margin:0;font-variant-numeric:tabular-nums}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:16px;margin:0 0 16px}
.tiles dd{font-size:20px;font-weight:600;line-height:1.3;white-space:nowrap}
svg{display:block;width:100%}svg.big{height:170px}svg.bars,svg.line{height:58px;margin:8px 0}svg.mini{height:26px}
svg rect{fill:var(--blue)}svg.big rect:hover{fill:var(--warm)}
svg.big,svg.mini,svg.bars{border-bottom:1px solid var(--line)}
svg polyline{fill:none;stroke:var(--blue);stroke-width:1.6;vector-effect:non-scaling-stroke;stroke-linejoin:round}
svg polygon{fill:var(--soft);opacity:.75}
.axis{display:flex;justify-content:space-between;margin-top:6px;color:var(--muted);font-size:12px;gap:8px}
.meter{display:inline-block;width:100%;height:8px;border-radius:4px;background:var(--track);overflow:hidden;
vertical-align:middle}
.meter i{display:block;height:100%;border-radius:4px;background:var(--blue)}.meter.warm i{background:var(--warm)}
ul.rows{list-style:none;margin:0;padding:0}
.rows li{display:grid;grid-template-columns:112px 1fr minmax(60px,auto);gap:12px;align-items:center;padding:4px 0;
font-size:13.5px}
.rows b{font-weight:600;font-variant-numeric:tabular-nums;white-space:nowrap}.rows small{white-space:nowrap}
.shapes li{grid-template-columns:64px 140px 1fr}.chips{display:flex;flex-wrap:wrap;gap:5px}
code{background:var(--track);border-radius:5px;padding:1px 7px;font:12.5px/1.6 ui-monospace,Menlo,Consolas,monospace;
overflow-wrap:anywhere}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(330px,100%),1fr));gap:16px}
.card{background:var(--panel);border:1px solid var(--line);border-radius:12px;padding:16px 18px;min-width:0}
.card .top{display:flex;justify-content:space-between;align-items:baseline;gap:10px}
h4{margin:0;font-size:16px;overflow-wrap:anywhere}
.type{flex:none;font-size:12px;font-weight:600;padding:1px 9px;border-radius:10px;background:var(--soft);
color:var(--blue)}
.type.text,.type.empty{color:var(--green);background:color-mix(in srgb,var(--green) 15%,transparent)}
.type.timestamp,.type.bool{color:var(--violet);background:color-mix(in srgb,var(--violet) 15%,transparent)}
.type.binary{color:var(--warm);background:color-mix(in srgb,var(--warm) 15%,transparent)}
.meta{margin:4px 0 0;color:var(--muted);font-size:12.5px}.meta .meter{width:72px;height:6px;margin-right:6px}
.note{margin:4px 0;color:var(--muted);font-size:12.5px}
.stats{display:grid;grid-template-columns:repeat(3,1fr);gap:6px 10px;margin:6px 0 10px}
.stats dd{font-weight:600;font-size:14px}
.tops{margin:6px 0 10px!important}.tops li{grid-template-columns:minmax(0,1.4fr) 1fr 52px;padding:2px 0}
.value{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;font:12.5px ui-monospace,Menlo,Consolas,monospace}
.tops small{text-align:right}
table.overview{width:100%;border-collapse:collapse;font-size:14px}
.overview th,.overview td{padding:6px 10px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;
font-variant-numeric:tabular-nums}
.overview thead th{color:var(--muted);font-weight:400;font-size:12.5px}
.overview th:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;font-weight:600}
.overview .spark{width:34%;text-align:left}.overview tr:last-child>*{border-bottom:0}
.overview thead th:nth-child(2){text-align:left}
a{color:var(--blue);text-decoration:none}a:hover{text-decoration:underline}
footer{padding:32px 24px 48px;color:var(--muted);font-size:12.5px}
@media print{body{background:#fff}.panel,.card{break-inside:avoid}}
"""
