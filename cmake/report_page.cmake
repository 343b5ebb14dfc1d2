# cmake -DPARTS=data/report -DVEGA=folder -DTO=page.html -P report_page.cmake: one HTML file
# with everything in it but the data, which takes the place of @DATA@ when a report is
# written.
#
# Debian ships Vega in parts, each an AMD module; bundle.js of ours defines them one by one
# in this order and joins them.  Parts for maps, networks and word clouds are left out.
# Comments that point at source maps would make a browser look for files.
cmake_minimum_required(VERSION 3.18) # else @NAME@ in a string is a variable
set(modules util time format loader canvas expression event-selector dataflow scale
  scenegraph statistics selection functions runtime view parser transforms view-transforms
  encode interpreter)
set(vega "")
foreach(module ${modules})
  file(READ ${VEGA}/vega-${module}.min.js part)
  string(REGEX REPLACE "//# sourceMappingURL=[^\n]*" "" part "${part}")
  string(APPEND vega "vegaPart(\"vega-${module}\");\n${part}\n")
endforeach()

file(READ ${PARTS}/page.html page)
foreach(file page.css bundle.js vega-licence.txt data.js theme.js marks.js charts.js depth.js table.js
    help.js frame.js words.js cell.js sections.js perturb.js page.js)
  file(READ ${PARTS}/${file} text)
  string(REPLACE "@${file}@" "${text}" page "${page}")
endforeach()
string(REPLACE "@VEGA@" "${vega}" page "${page}")
file(WRITE ${TO} "${page}")
